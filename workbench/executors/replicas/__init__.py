"""The devices' own values of persistable variables."""
