"""Generated from proto/ by generate.py."""
