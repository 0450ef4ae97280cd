"""What processes exchange over the memory they share.

`channel` keeps what has been started in order, `rounds` says what a collective puts there and takes from there,
`messages` goes from one process to another, `vote` is how all of them decide together.
"""
