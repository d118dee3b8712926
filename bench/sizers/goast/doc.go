// Package goast holds the syntax tree of a Go file, by go/ast. Its directives are the recipe of the README of sizegen.
package goast
