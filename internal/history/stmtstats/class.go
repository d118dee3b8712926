package stmtstats

import (
	"slices"

	"github.com/taredb/tare/mysql/mysqlwire"
)

// An ErrorClass is the kind of failure that ended a statement. There are few classes, so that each digest has
// a counter for every one.
type ErrorClass uint8

// The classes, by the operator's remedy.
const (
	ClassOther      ErrorClass = iota
	ClassSyntax                // the statement is wrong, or names missing objects
	ClassDenied                // the account lacks a privilege, or a rule refused the statement
	ClassConstraint            // a key, a reference or a check forbids the row
	ClassData                  // a value does not fit its column
	ClassDeadlock              // rolled back to resolve a deadlock
	ClassTimeout               // waited for a lock, or executed, for too long
	ClassKilled                // interrupted
	ClassReadOnly              // the server, or a rule, permits no changes
	ClassResource              // the server is out of connections, memory or disk
	ClassConnection            // the connection to the client or the backend was lost

	// ErrorClasses is the number of classes.
	ErrorClasses = int(iota)
)

var classNames = [ErrorClasses]string{
	"other", "syntax", "denied", "constraint", "data", "deadlock", "timeout", "killed", "read_only", "resource", "connection",
}

// String returns the value of the label class.
func (c ErrorClass) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return classNames[ClassOther]
}

// ParseErrorClass returns the class with a label value.
func ParseErrorClass(name string) (ErrorClass, bool) {
	i := slices.Index(classNames[:], name)
	return ErrorClass(max(i, 0)), i >= 0
}

// ClassOf returns the class of an error by its number, or by the class of its SQLSTATE if the number is
// unknown. It does not allocate.
func ClassOf(number uint16, state string) ErrorClass {
	switch mysqlwire.Errno(number) {
	case mysqlwire.ErrnoDeadlock, 1614: // ER_XA_RBDEADLOCK
		return ClassDeadlock
	case mysqlwire.ErrnoLockWaitTimeout, 1613, 1907, 1969, 3024, 3572: // XA timeout, MariaDB's and MySQL's statement timeouts, NOWAIT
		return ClassTimeout
	case mysqlwire.ErrnoQueryInterrupted, mysqlwire.ErrnoConnectionKilled, mysqlwire.ErrnoServerShutdown, 1078:
		return ClassKilled
	case mysqlwire.ErrnoReadOnly, 1036, 1792, 1836: // a table, a transaction, the server in read-only mode
		return ClassReadOnly
	case mysqlwire.ErrnoSpecificAccessDenied, mysqlwire.ErrnoAccessDenied, 1044, 1095, 1142, 1143, 1370:
		return ClassDenied
	case mysqlwire.ErrnoTooManyConnections, mysqlwire.ErrnoTooManyUserConnections, mysqlwire.ErrnoUserLimit,
		1021, 1037, 1038, 1041, 1114, 1206, 1461: // disk, memory, sort memory, table full, locks, prepared statements
		return ClassResource
	case mysqlwire.ErrnoServerLost, mysqlwire.ErrnoNetRead, mysqlwire.ErrnoNetReadInterrupted,
		mysqlwire.ErrnoNetWrite, mysqlwire.ErrnoNetWriteInterrupted, mysqlwire.ErrnoAborting, 2006:
		return ClassConnection
	case 1451, 1452, 1216, 1217, 1062, 1586, 1048, 3819, 4025: // 4025: MariaDB's CHECK
		return ClassConstraint
	case 1366, 1364, 1292: // a wrong, a missing, a truncated value
		return ClassData
	}
	if len(state) < 2 {
		return ClassOther
	}
	switch state[:2] {
	case "42":
		return ClassSyntax
	case "23":
		return ClassConstraint
	case "21", "22":
		return ClassData
	case "28":
		return ClassDenied
	case "08":
		return ClassConnection
	case "40":
		return ClassDeadlock
	case "25":
		return ClassReadOnly
	}
	return ClassOther
}
