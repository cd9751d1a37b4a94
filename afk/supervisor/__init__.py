"""Many attempts: boot, pick, assign, recover."""
