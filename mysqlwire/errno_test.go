package mysqlwire

import (
	"testing"

	gomysql "github.com/go-mysql-org/go-mysql/mysql"
)

// TestErrnoState compares SQLSTATEs with go-mysql's table, for all numbers that it has and this package
// names; the others are listed here.
func TestErrnoState(t *testing.T) {
	own := map[Errno]string{
		ErrnoConnectionKilled: "70100", // MariaDB's errmsg.txt
		ErrnoNoDatabase:       "3D000",
	}
	known := 0
	for n := range 1 << 16 {
		e := Errno(n)
		want, ok := gomysql.MySQLState[uint16(n)]
		if own[e] != "" {
			want, ok = own[e], true
		}
		switch got := e.State(); {
		case len(got) != 5:
			t.Errorf("%d: SQLSTATE %q", n, got)
		case got == stateGeneral:
		case !ok:
			t.Errorf("%d: SQLSTATE %s, which go-mysql does not know", n, got)
		case got != want:
			t.Errorf("%d: got %s, want %s", n, got, want)
		default:
			known++
		}
	}
	if known < 15 {
		t.Errorf("only %d numbers compared", known)
	}
	for n, want := range map[Errno]uint16{
		ErrnoTooManyConnections: gomysql.ER_CON_COUNT_ERROR, ErrnoBadHost: gomysql.ER_BAD_HOST_ERROR,
		ErrnoHandshake: gomysql.ER_HANDSHAKE_ERROR, ErrnoAccessDenied: gomysql.ER_ACCESS_DENIED_ERROR,
		ErrnoNoDatabase: gomysql.ER_NO_DB_ERROR, ErrnoUnknownCommand: gomysql.ER_UNKNOWN_COM_ERROR,
		ErrnoUnknownDatabase: gomysql.ER_BAD_DB_ERROR, ErrnoServerShutdown: gomysql.ER_SERVER_SHUTDOWN,
		ErrnoUnknown: gomysql.ER_UNKNOWN_ERROR, ErrnoHostBlocked: gomysql.ER_HOST_IS_BLOCKED,
		ErrnoHostNotPrivileged: gomysql.ER_HOST_NOT_PRIVILEGED, ErrnoAborting: gomysql.ER_ABORTING_CONNECTION,
		ErrnoPacketTooLarge: gomysql.ER_NET_PACKET_TOO_LARGE, ErrnoPacketsOutOfOrder: gomysql.ER_NET_PACKETS_OUT_OF_ORDER,
		ErrnoUncompress: gomysql.ER_NET_UNCOMPRESS_ERROR, ErrnoNetRead: gomysql.ER_NET_READ_ERROR,
		ErrnoNetReadInterrupted: gomysql.ER_NET_READ_INTERRUPTED, ErrnoNetWrite: gomysql.ER_NET_ERROR_ON_WRITE,
		ErrnoNetWriteInterrupted: gomysql.ER_NET_WRITE_INTERRUPTED, ErrnoTooManyUserConnections: gomysql.ER_TOO_MANY_USER_CONNECTIONS,
		ErrnoLockWaitTimeout: gomysql.ER_LOCK_WAIT_TIMEOUT, ErrnoDeadlock: gomysql.ER_LOCK_DEADLOCK,
		ErrnoUserLimit: gomysql.ER_USER_LIMIT_REACHED, ErrnoAuthNotSupported: gomysql.ER_NOT_SUPPORTED_AUTH_MODE,
		ErrnoReadOnly: gomysql.ER_OPTION_PREVENTS_STATEMENT, ErrnoQueryInterrupted: gomysql.ER_QUERY_INTERRUPTED,
		ErrnoMalformedPacket: gomysql.ER_MALFORMED_PACKET, ErrnoWrongValueForVar: gomysql.ER_WRONG_VALUE_FOR_VAR,
	} {
		if uint16(n) != want {
			t.Errorf("%d: go-mysql says %d", n, want)
		}
		state, ok := gomysql.MySQLState[want]
		if !ok {
			state = stateGeneral
		}
		if got := n.State(); got != state && own[n] == "" {
			t.Errorf("%d: got SQLSTATE %s, go-mysql says %s", n, got, state)
		}
	}
}
