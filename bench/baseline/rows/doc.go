// Package rows streams the rows of a table to another server as it is written first, and as
// vitessio/vitess#7951 found it: a packet header on the stack that escapes, a slice of values
// and a message for each row, a clock read for each row, and a new slice for each row that a
// filter lets pass. It is there to be compared with packages rowstream and copier of the main
// module.
//
// Messages are those of Vitess' VStreamRows.
package rows
