//! Processes and cgroups on this machine.
