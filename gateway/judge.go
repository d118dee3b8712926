package gateway

import (
	"github.com/taredb/tare/internal/mysql/sqlplan"
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
)

// judge returns the refusal of a command without text. The rules treat such a command as the equivalent
// statement; a command without an equivalent may have any effect.
func (x *executor) judge() *clientError {
	if !x.srv.opts.Planner.HasRules() {
		return nil
	}
	var sql []byte
	hidden := false
	switch x.msg.cmd {
	case mysqlwire.ComPing, mysqlwire.ComQuit, mysqlwire.ComSetOption, mysqlwire.ComResetConnection, mysqlwire.ComTime,
		mysqlwire.ComSleep, mysqlwire.ComConnect:
		return nil
	case mysqlwire.ComInitDB:
		sql = appendQuoted([]byte("USE "), x.msg.body[1:])
	case mysqlwire.ComFieldList:
		table := x.msg.body[1:]
		for i, c := range table {
			if c == 0 {
				table = table[:i]
				break
			}
		}
		sql = appendQuoted([]byte("SHOW COLUMNS FROM "), table)
	case mysqlwire.ComCreateDB:
		sql = appendQuoted([]byte("CREATE DATABASE "), x.msg.body[1:])
	case mysqlwire.ComDropDB:
		sql = appendQuoted([]byte("DROP DATABASE "), x.msg.body[1:])
	case mysqlwire.ComRefresh:
		sql = []byte("FLUSH TABLES") // or logs, status, privileges
	case mysqlwire.ComProcessKill:
		sql = []byte("KILL 1")
	case mysqlwire.ComStatistics:
		sql = []byte("SHOW STATUS")
	case mysqlwire.ComProcessInfo:
		sql = []byte("SHOW PROCESSLIST")
	case mysqlwire.ComShutdown, mysqlwire.ComDebug:
		sql = []byte("SHUTDOWN")
	default:
		sql, hidden = []byte("SHOW BINLOG EVENTS"), true
	}
	x.modes.followRules()
	mode := x.modes.mode
	if !x.msg.whole {
		hidden = true
	}
	if hidden {
		mode |= sqldigest.UnknownCharset
	}
	var d sqldigest.Digester
	digest := d.Digest(sql, mode)
	scope := x.modes.scopeIn(x.modes.schema, mode)
	if d.Divergent() {
		scope = scope.Divergent()
	}
	x.plan = x.srv.opts.Planner.Plan(sqlplan.Statement{
		SQL: sql, Complete: true, Text: d.Text(), Digest: digest, Scope: scope, Schema: []byte(x.modes.schema), User: []byte(x.modes.user), Mode: mode,
	})
	return x.refusal()
}

// appendQuoted appends the name in backticks.
func appendQuoted(dst, name []byte) []byte {
	dst = append(dst, '`')
	for _, c := range name {
		if c == '`' {
			dst = append(dst, c)
		}
		dst = append(dst, c)
	}
	return append(dst, '`')
}
