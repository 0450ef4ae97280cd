"""How fast steps are on this machine, and how fast they could be (`workbench bench`).

workloads.py   the five standard training programs      machine.py   rates the machine reaches without us
work.py        arithmetic and bytes of a plan           roofline.py  measured steps against the time of that work
growth.py      by number of devices and of ops          memory.py    in a process of its own
own_program.py a user's program, node by node (`wb.bench`)
FLOORS.md      what the floors assume, and what keeps steps above them
coverage/      which nodes of programs of many kinds run by NumPy
row.py         programs as people bring them (`rows/`)  table.py     measured beside other libraries (`peers/`)
"""
