package session

import (
	"errors"

	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// Errors of servers that lack something that a statement names, of missing privileges, and of their parsers.
const (
	errAccessDenied       = 1044
	errUnknownColumn      = 1054
	errParse              = 1064
	errUnknownSchemaTable = 1109 // in information_schema
	errTableDenied        = 1142
	errUnknownTable       = 1146
	errUnknownVariable    = 1193
	errSpecificDenied     = 1227
	errUnknownFunction    = 1305
)

// Denied reports whether an error number means that the account lacks a privilege.
func Denied(code mysqlwire.Errno) bool {
	return code == errAccessDenied || code == errTableDenied || code == errSpecificDenied
}

// IsUnseen reports whether an error means that the server does not have what the statement names (a variable, table,
// column or function), or that the account lacks the privilege to see it. Other errors are no reason to do without it.
func IsUnseen(err error) bool {
	refused, ok := errors.AsType[*mysqlconn.ServerError](err)
	if !ok {
		return false
	}
	switch refused.Number {
	case errUnknownVariable, errUnknownColumn, errUnknownTable, errUnknownSchemaTable, errUnknownFunction:
		return true
	}
	return Denied(refused.Number)
}

// mayLack reports whether an error means that the account may not see a setting, or that the server does not know the statement.
func mayLack(err error) bool {
	refused, ok := errors.AsType[*mysqlconn.ServerError](err)
	return ok && (refused.Number == errParse || IsUnseen(err))
}

// IsRefusal reports whether an error is permanent: a server's refusal.
func IsRefusal(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && !refused.SafeToRetry()
}

// IsUnknownVariable reports whether an error is that of a server without a variable.
func IsUnknownVariable(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == errUnknownVariable
}
