// Command origins repeats the measurements of the five changes that Tare comes from: the work as
// each found it (our own plain twin, in bench/baseline) beside the product, with the cases that
// the change published.
//
//	go run ./origins                 all of them
//	go run ./origins -only plancache one
//
// For each it writes old.txt and new.txt, lines of Go's benchmark format, and has benchstat
// compare them; some draw a chart. docs/background/origins.md tells what the figures say.
//
// A change is one entry of origins in main.go, and a file of its own.
package main
