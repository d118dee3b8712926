// Package promql holds the syntax tree of a PromQL expression, by Prometheus' parser. Its directives are the recipe of the README of sizegen.
package promql
