"""Surveys: the document, devices and their accounts, the page, the collector and its stores."""
