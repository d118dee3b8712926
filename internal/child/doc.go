// Package child runs programs as child processes that start, become ready and stop in order, and that do not
// outlive this process.
package child
