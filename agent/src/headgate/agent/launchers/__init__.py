"""Launchers of jobs: attempts that are processes of their own, and outlive the agent."""

from headgate.agent.launchers.dispatch import FlowLaunchers
from headgate.agent.launchers.launcher import JobsLauncher
from headgate.agent.launchers.local_jobs import LocalJobs

__all__ = ["FlowLaunchers", "JobsLauncher", "LocalJobs"]
