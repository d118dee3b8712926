// Package goast contains the syntax tree of a Go file: a sealed interface of the standard library with dozens
// of implementations, and fields whose dynamic types only a directive can state.
//
// An entry is a file's tree, as in the cache of a language server. Its directives are the recipe in the
// README of sizegen. Only its test uses the package.
package goast
