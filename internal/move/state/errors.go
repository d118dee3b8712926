package state

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/mysql/binlog"
	"github.com/taredb/tare/mysql/mysqlconn"
	"github.com/taredb/tare/mysql/mysqlwire"
)

// IsShutdown reports whether an error of a server means that the server or the connection is shutting down.
func IsShutdown(n mysqlwire.Errno) bool {
	switch n {
	case mysqlwire.ErrnoServerShutdown, mysqlwire.ErrnoConnectionKilled, mysqlwire.ErrnoQueryInterrupted, mysqlwire.ErrnoServerLost:
		return true
	}
	return false
}

// IsUnreachable reports whether an error means that a server is unreachable or that the connection to it was lost.
func IsUnreachable(err error) bool {
	var refused *mysqlconn.ServerError
	if errors.As(err, &refused) {
		return refused.SafeToRetry() || IsShutdown(refused.Number)
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, mysqlconn.ErrBroken)
}

// Errors of servers for a statement that the account may not execute in a schema or on a table.
const (
	errDatabaseDenied = 1044
	ErrTableDenied    = 1142
)

const errNoSuchTable = 1146

// errDuplicateEntry is the error of a server for a row whose unique key another row has.
const errDuplicateEntry = 1062

// Errors of servers whose disk, tablespace or temporary table is full.
const (
	errWriteFile  = 3
	errDiskFull   = 1021
	errRecordFull = 1114
)

// errRowFormat is the error of MariaDB for a change that the binary log cannot have as a statement.
const errRowFormat = 1665

// errKeyring is the error of MySQL for an encrypted table without a keyring, which default_table_encryption makes of each table.
const errKeyring = 3185

// WithAdvice adds advice for the operator to an error of the target, if there is any.
func WithAdvice(err error) error {
	const again = "and run the same command again: it resumes from here"
	var refused *mysqlconn.ServerError
	switch {
	case errors.As(err, &refused) && (refused.Number == errRecordFull || refused.Number == errDiskFull || refused.Number == errWriteFile):
		return fmt.Errorf("%w; free disk space for its data and temporary files, or raise the limit of its tablespace, %s", err, again)
	case errors.As(err, &refused) && refused.Number == errRowFormat:
		return fmt.Errorf("%w; set binlog_format of the target to ROW or MIXED, and wsrep_forced_binlog_format to NONE, %s", err, again)
	case errors.As(err, &refused) && refused.Number == errKeyring:
		return fmt.Errorf("%w; load a keyring in the target, or set its default_table_encryption to OFF, %s", err, again)
	case errors.As(err, &refused) && session.Denied(refused.Number):
		return fmt.Errorf("%w; grant the target's account what it lacks, %s", err, again)
	case IsUnreachable(err):
		return fmt.Errorf("%w; start the server, or wait for it longer with option patience, %s", err, again)
	}
	return err
}

// IsTransient reports whether an error of the source may be temporary: the source is unreachable or busy.
func IsTransient(err error) bool {
	var refused *mysqlconn.ServerError
	return !binlog.IsSetting(err) && (!errors.As(err, &refused) || refused.SafeToRetry() || IsShutdown(refused.Number) || IsLockWait(err))
}

// IsLockWait reports whether a statement failed because another session has a lock.
func IsLockWait(err error) bool {
	var refused *mysqlconn.ServerError
	return errors.As(err, &refused) && refused.Number == mysqlwire.ErrnoLockWaitTimeout
}
