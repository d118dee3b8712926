// Package rows is a straightforward stream of a table's rows to another server, in the state that
// vitessio/vitess#7951 describes: a packet header on the stack that escapes, a slice of values and a message
// per row, a clock read per row, and a new slice per row that passes a filter. It is the baseline of packages
// rowstream and copier of the main module.
//
// Messages are those of Vitess' VStreamRows.
package rows
