package gateway

import (
	"github.com/taredb/tare/mysql/mysqlwire"
	"github.com/taredb/tare/mysql/sqldigest"
	"github.com/taredb/tare/mysql/sqlplan"
)

// judge returns the refusal of a command without text. The rules treat such a command as the equivalent
// statement; a command without an equivalent may have any effect.
func (s *session) judge() *clientError {
	if !s.srv.opts.Planner.HasRules() {
		return nil
	}
	var sql []byte
	hidden := false
	switch s.msg.cmd {
	case mysqlwire.ComPing, mysqlwire.ComQuit, mysqlwire.ComSetOption, mysqlwire.ComResetConnection, mysqlwire.ComTime,
		mysqlwire.ComSleep, mysqlwire.ComConnect:
		return nil
	case mysqlwire.ComInitDB:
		sql = appendQuoted([]byte("USE "), s.msg.body[1:])
	case mysqlwire.ComFieldList:
		table := s.msg.body[1:]
		for i, c := range table {
			if c == 0 {
				table = table[:i]
				break
			}
		}
		sql = appendQuoted([]byte("SHOW COLUMNS FROM "), table)
	case mysqlwire.ComCreateDB:
		sql = appendQuoted([]byte("CREATE DATABASE "), s.msg.body[1:])
	case mysqlwire.ComDropDB:
		sql = appendQuoted([]byte("DROP DATABASE "), s.msg.body[1:])
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
	s.modes.followRules()
	mode := s.modes.mode
	if !s.msg.whole {
		hidden = true
	}
	if hidden {
		mode |= sqldigest.UnknownCharset
	}
	var d sqldigest.Digester
	digest := d.Digest(sql, mode)
	scope := s.modes.scopeIn(s.modes.schema, mode)
	if d.Divergent() {
		scope = scope.Divergent()
	}
	s.plan = s.srv.opts.Planner.Plan(sqlplan.Statement{
		SQL: sql, Complete: true, Text: d.Text(), Digest: digest, Scope: scope, Schema: []byte(s.modes.schema), User: []byte(s.modes.user), Mode: mode,
	})
	return s.refusal()
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
