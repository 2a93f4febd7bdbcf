"""Launchers of jobs: attempts that are processes of their own, and outlive the agent."""

from headgate.agent.launchers.attended import AttendedJobs
from headgate.agent.launchers.dispatch import FlowLaunchers
from headgate.agent.launchers.launcher import JobsLauncher

__all__ = ["AttendedJobs", "FlowLaunchers", "JobsLauncher"]
