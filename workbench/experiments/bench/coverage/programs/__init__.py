"""Programs of `workbench bench --coverage`: every file has `PROGRAMS`, what they train in front of them.

They use nothing but what users see, which is above this layer: each gets it as `paddle`, its first argument.
"""
