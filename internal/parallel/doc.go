// Package parallel calls a function for each item of a list, with bounded concurrency.
package parallel
