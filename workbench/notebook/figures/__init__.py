"""Pictures of what the dashboard shows, drawn without a browser: for exported pages, GitHub and files."""
