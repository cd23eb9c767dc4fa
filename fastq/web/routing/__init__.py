"""How a page and an action are declared, and how a request becomes an answer: permission, contents, template, stream, form.

A page is a module that declares a `View` or an `Action` as data (view.py) and knows no HTTP; the other modules here serve it.
"""
