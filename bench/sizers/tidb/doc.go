// Package tidb holds the syntax tree of a SQL statement, by TiDB's parser. Its directives are the recipe of the README of sizegen.
package tidb
