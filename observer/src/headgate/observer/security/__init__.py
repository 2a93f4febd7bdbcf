"""Who may do what, and how both sides prove who they are."""
