"""The pytest plugin: a running Hereabouts and scripted clients as fixtures.

It is loaded in every pytest run of an environment that has this package, so nothing heavy is imported up here.
"""
