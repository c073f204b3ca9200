"""The commands, one file each; heavy imports sit inside the command."""
