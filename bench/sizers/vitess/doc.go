// Package vitess holds the syntax tree of a SQL statement, by Vitess' parser. Its directives are the recipe of the README of sizegen.
package vitess
