// Command origins repeats the measurements of the five changes that inspired Tare: the state before each
// change (a baseline in bench/baseline) is compared with the product, with the published cases of the change.
//
//	go run ./origins                 all of them
//	go run ./origins -only plancache one
//
// For each it writes old.txt and new.txt, lines of Go's benchmark format, and compares them with benchstat;
// some draw a chart. README.md explains the results.
//
// A change is one entry of origins in main.go, and a separate file.
package main
