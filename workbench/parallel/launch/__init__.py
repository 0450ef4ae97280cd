"""Starting the processes of a job, under MPI, and what each of them does before the user's script."""
