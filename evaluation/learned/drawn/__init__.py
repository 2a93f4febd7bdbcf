"""Dataflows that are drawn at random, and whether learned triggers keep their promises there."""
