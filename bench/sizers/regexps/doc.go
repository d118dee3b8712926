// Package regexps holds a compiled regular expression. Its directives are the recipe of the README of sizegen.
package regexps
