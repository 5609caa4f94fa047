"""A container in a world that the test moves (`world`), and a small control plane for a real one."""
