package mysqlwire

import "strconv"

// An Errno is a MySQL error number. 1000–1999 and 3000 up come from servers, 2000–2999
// from clients; MySQL and MariaDB share the numbers below 1900 and differ above.
//
// Specification: MySQL "Error Message Reference", MariaDB "MariaDB Error Codes".
type Errno uint16

// The error numbers that a gateway sends or acts on.
const (
	ErrnoTooManyConnections     Errno = 1040
	errnoBadHost                Errno = 1042 // the backend's host name cannot be resolved or reached
	ErrnoHandshake              Errno = 1043
	ErrnoAccessDenied           Errno = 1045
	errnoNoDatabase             Errno = 1046
	ErrnoUnknownCommand         Errno = 1047
	ErrnoUnknownDatabase        Errno = 1049
	ErrnoServerShutdown         Errno = 1053
	ErrnoSyntax                 Errno = 1064
	ErrnoUnknown                Errno = 1105
	ErrnoHostBlocked            Errno = 1129
	errnoHostNotPrivileged      Errno = 1130
	ErrnoAborting               Errno = 1152
	ErrnoPacketTooLarge         Errno = 1153
	ErrnoPacketsOutOfOrder      Errno = 1156
	errnoUncompress             Errno = 1157
	ErrnoNetRead                Errno = 1158
	ErrnoNetReadInterrupted     Errno = 1159 // timeout while reading
	ErrnoNetWrite               Errno = 1160
	ErrnoNetWriteInterrupted    Errno = 1161 // timeout while writing
	ErrnoTooManyUserConnections Errno = 1203
	ErrnoLockWaitTimeout        Errno = 1205
	ErrnoDeadlock               Errno = 1213
	ErrnoUserLimit              Errno = 1226
	ErrnoSpecificAccessDenied   Errno = 1227
	ErrnoWrongValueForVar       Errno = 1231
	ErrnoUnknownStatement       Errno = 1243 // no prepared statement has the number
	ErrnoAuthNotSupported       Errno = 1251
	ErrnoReadOnly               Errno = 1290 // the server runs with --read-only or the like
	ErrnoQueryInterrupted       Errno = 1317
	ErrnoMalformedPacket        Errno = 1835
	ErrnoConnectionKilled       Errno = 1927 // MariaDB
	ErrnoServerLost             Errno = 2013
	ErrnoSecureTransport        Errno = 3159
	ErrnoClientIdle             Errno = 4031 // MySQL; the number means another error in MariaDB
	ErrnoUserBlocked            Errno = 4150 // MariaDB: max_password_errors
)

// stateGeneral is the SQLSTATE of errors without a specific one.
const stateGeneral = "HY000"

// State returns the SQLSTATE that servers send with e for the numbers above, and "HY000" for all others. It
// does not allocate.
func (e Errno) State() string {
	switch e {
	case ErrnoTooManyConnections:
		return "08004"
	case errnoBadHost, ErrnoHandshake, ErrnoUnknownCommand, ErrnoServerShutdown, ErrnoAborting,
		ErrnoPacketTooLarge, ErrnoPacketsOutOfOrder, errnoUncompress, ErrnoNetRead,
		ErrnoNetReadInterrupted, ErrnoNetWrite, ErrnoNetWriteInterrupted:
		return "08S01"
	case ErrnoAccessDenied:
		return "28000"
	case errnoNoDatabase:
		return "3D000"
	case ErrnoUnknownDatabase, ErrnoTooManyUserConnections, ErrnoUserLimit, ErrnoSpecificAccessDenied, ErrnoWrongValueForVar:
		return "42000"
	case ErrnoDeadlock:
		return "40001"
	case ErrnoAuthNotSupported:
		return "08004"
	case ErrnoQueryInterrupted, ErrnoConnectionKilled:
		return "70100"
	}
	return stateGeneral
}

// String returns the number in decimal.
func (e Errno) String() string { return strconv.Itoa(int(e)) }
