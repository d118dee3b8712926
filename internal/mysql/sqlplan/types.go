package sqlplan

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
)

// A Type is the kind of a statement, by its verb.
type Type uint8

// The statement types. Their numbers are not stable; their names are.
const (
	TypeUnknown    Type = iota // an unknown verb
	TypeSelect                 // SELECT, TABLE, VALUES, WITH … SELECT, parenthesized queries
	TypeInsert                 // INSERT
	TypeReplace                // REPLACE
	TypeUpdate                 // UPDATE
	TypeDelete                 // DELETE
	TypeDDL                    // CREATE, ALTER, DROP, RENAME, TRUNCATE of anything but accounts
	TypeSet                    // SET
	TypeBegin                  // BEGIN, START TRANSACTION
	TypeCommit                 // COMMIT
	TypeRollback               // ROLLBACK of the whole transaction
	TypeSavepoint              // SAVEPOINT, RELEASE SAVEPOINT, ROLLBACK TO
	TypeUse                    // USE
	TypeShow                   // SHOW
	TypeExplain                // EXPLAIN, DESCRIBE, DESC, MariaDB's ANALYZE of a statement
	TypeCall                   // CALL
	TypePrepare                // PREPARE
	TypeExecute                // EXECUTE, MariaDB's EXECUTE IMMEDIATE
	TypeDeallocate             // DEALLOCATE PREPARE, DROP PREPARE
	TypeLoad                   // LOAD DATA, LOAD XML
	TypeLock                   // LOCK TABLES, LOCK INSTANCE
	TypeUnlock                 // UNLOCK TABLES, UNLOCK INSTANCE
	TypeKill                   // KILL
	TypeFlush                  // FLUSH, RESET
	TypeAnalyze                // ANALYZE, CHECK, CHECKSUM, OPTIMIZE, REPAIR TABLE
	TypeGrant                  // GRANT, REVOKE and the account statements
	TypeXA                     // XA
	TypeHandler                // HANDLER
	TypeDo                     // DO
	TypeOther                  // a known statement of no type above, or an empty one
	TypeMulti                  // several statements in one text
	typeCount
)

var typeNames = [typeCount]string{
	"unknown", "select", "insert", "replace", "update", "delete", "ddl", "set",
	"begin", "commit", "rollback", "savepoint", "use", "show", "explain", "call",
	"prepare", "execute", "deallocate", "load", "lock", "unlock", "kill", "flush",
	"analyze", "grant", "xa", "handler", "do", "other", "multi",
}

// String returns the type's name in rules, the log and metrics.
func (t Type) String() string {
	if t < typeCount {
		return typeNames[t]
	}
	return fmt.Sprintf("Type(%d)", uint8(t))
}

// ParseType returns the type with the given name; it is the inverse of String.
func ParseType(name string) (Type, error) {
	for t, n := range typeNames {
		if n == name {
			return Type(t), nil
		}
	}
	return TypeUnknown, fmt.Errorf("unknown statement type %q", name)
}

// AllTypes yields every type in the order of its declaration, for help texts and metrics.
func AllTypes() iter.Seq[Type] {
	return func(yield func(Type) bool) {
		for t := range typeCount {
			if !yield(t) {
				return
			}
		}
	}
}

// A typeSet is a bit set of types.
type typeSet uint64

func (s *typeSet) add(t Type) { *s |= 1 << t }

// An Effect is a set of effects of a statement on its session, or on the server beyond its result. Session
// tracking uses it: a session may change its backend connection only if no effect would be lost.
//
// An effect is possible, without a value: literals are not part of a statement's digest.
type Effect uint64

const (
	// EffectSessionVar : sets a session system variable.
	EffectSessionVar Effect = 1 << iota
	// EffectGlobalVar : sets a global or persisted system variable.
	EffectGlobalVar
	// EffectSQLMode : may change sql_mode and with it how the next statement is read; see Plan.SessionMode.
	EffectSQLMode
	// EffectCharset : changes a character set or collation of the connection.
	EffectCharset
	// EffectAutocommit : sets autocommit; the status flags of the server's response have the value.
	EffectAutocommit
	// EffectTxMode : SET TRANSACTION: isolation level or access mode.
	EffectTxMode
	// EffectUserVarWrite : assigns a user variable.
	EffectUserVarWrite
	// EffectUserVarRead : its result depends on a user variable.
	EffectUserVarRead
	// EffectTempTable : creates or drops a temporary table.
	EffectTempTable
	// EffectTableLocks : LOCK TABLES, FLUSH TABLES WITH READ LOCK, LOCK INSTANCE, or their release.
	EffectTableLocks
	// EffectNamedLock : GET_LOCK, RELEASE_LOCK, RELEASE_ALL_LOCKS.
	EffectNamedLock
	// EffectRowLocks : SELECT … FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE; a query within SET, DO, CALL or KILL.
	EffectRowLocks
	// EffectBegin : starts a transaction.
	EffectBegin
	// EffectCommit : commits one.
	EffectCommit
	// EffectRollback : rolls one back.
	EffectRollback
	// EffectSavepoint : sets, releases or rolls back to a savepoint.
	EffectSavepoint
	// EffectImplicitCommit : ends an open transaction implicitly, as DDL does.
	EffectImplicitCommit
	// EffectXA : belongs to an XA transaction.
	EffectXA
	// EffectUse : changes the default schema.
	EffectUse
	// EffectPrepare : PREPARE, EXECUTE or DEALLOCATE of a statement named in text.
	EffectPrepare
	// EffectHandler : opens, reads or closes a HANDLER.
	EffectHandler
	// EffectRole : changes the session's roles or resource group.
	EffectRole
	// EffectInsertID : an INSERT or REPLACE, or LAST_INSERT_ID(expr): sets what LAST_INSERT_ID() reads.
	EffectInsertID
	// EffectLastResult : reads state of the previous statement: LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(),
	// SHOW WARNINGS, GET DIAGNOSTICS, @@warning_count and the like.
	EffectLastResult
	// EffectConnectionID : reads the number of the server's connection: CONNECTION_ID(), @@pseudo_thread_id.
	EffectConnectionID
	// EffectFoundRows : SELECT SQL_CALC_FOUND_ROWS.
	EffectFoundRows
	// EffectSequence : advances a MariaDB sequence.
	EffectSequence
	// EffectFunction : calls a function that is not built in: a stored or loadable one, with any effect.
	EffectFunction
	// EffectFile : writes a file on the server: INTO OUTFILE, INTO DUMPFILE.
	EffectFile
	// EffectSchema : changes a schema or accounts; knowledge about tables is out of date.
	EffectSchema
	// EffectRowInsert : inserts rows.
	EffectRowInsert
	// EffectRowUpdate : changes rows: UPDATE, INSERT … ON DUPLICATE KEY UPDATE.
	EffectRowUpdate
	// EffectRowDelete : deletes rows: DELETE, REPLACE, LOAD DATA … REPLACE.
	EffectRowDelete
	// EffectFileRead : reads a file on the server: LOAD_FILE(), LOAD DATA and LOAD XML without LOCAL.
	EffectFileRead
	// EffectAdmin : administers the server or maintains tables: FLUSH, KILL, OPTIMIZE TABLE, SHUTDOWN, replication.
	EffectAdmin
	// EffectUnknown : may have any effect: CALL, a statement in a variable, text that could not be
	// classified.
	EffectUnknown

	effectsEnd
)

var effectNames = [...]string{
	"session-var", "global-var", "sql-mode", "charset", "autocommit", "tx-mode", "user-var-write",
	"user-var-read", "temp-table", "table-locks", "named-lock", "row-locks", "begin", "commit", "rollback",
	"savepoint", "implicit-commit", "xa", "use", "prepare", "handler", "role", "insert-id", "last-result",
	"connection-id", "found-rows", "sequence", "function", "file", "schema", "row-insert", "row-update", "row-delete",
	"file-read", "admin", "unknown",
}

// Has reports whether all of other is in e.
func (e Effect) Has(other Effect) bool { return e&other == other }

// Any reports whether some of other is in e.
func (e Effect) Any(other Effect) bool { return e&other != 0 }

// String returns the names in the set, joined by commas; "-" for none.
func (e Effect) String() string {
	b, _ := e.AppendText(nil)
	return string(b)
}

// AppendText appends what String returns. It implements encoding.TextAppender.
func (e Effect) AppendText(dst []byte) ([]byte, error) {
	if e == 0 {
		return append(dst, '-'), nil
	}
	for i, first := e, true; i != 0; i &= i - 1 {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if n := bits.TrailingZeros64(uint64(i)); n < len(effectNames) {
			dst = append(dst, effectNames[n]...)
		} else {
			dst = fmt.Appendf(dst, "Effect(%d)", n)
		}
	}
	return dst, nil
}

// ParseEffect returns the effect with the given name in rules.
func ParseEffect(name string) (Effect, error) {
	for i, n := range effectNames {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("unknown effect %q: want %s", name, strings.Join(effectNames[:], ", "))
}

// AllEffects yields every effect in the order of its declaration.
func AllEffects() iter.Seq[Effect] {
	return func(yield func(Effect) bool) {
		for i := range effectNames {
			if !yield(1 << i) {
				return
			}
		}
	}
}

// effectsOnlySession are the effects that change or read only the session: they do not make a statement a
// writer.
const effectsOnlySession = EffectSessionVar | EffectSQLMode | EffectCharset | EffectAutocommit | EffectTxMode |
	EffectUserVarWrite | EffectUserVarRead | EffectBegin | EffectCommit | EffectRollback | EffectSavepoint |
	EffectUse | EffectLastResult | EffectConnectionID | EffectFoundRows | EffectRole | EffectFileRead
