package mysqlwire

// Status is the server status that OK and EOF packets carry.
type Status uint16

// Server status flags.
const (
	StatusInTrans            Status = 0x0001
	StatusAutocommit         Status = 0x0002
	StatusMoreResults        Status = 0x0008 // another response of the same command follows
	StatusNoGoodIndex        Status = 0x0010
	StatusNoIndex            Status = 0x0020
	StatusCursorExists       Status = 0x0040 // rows come by COM_STMT_FETCH
	StatusLastRowSent        Status = 0x0080
	StatusDBDropped          Status = 0x0100
	StatusNoBackslashEscapes Status = 0x0200
	StatusMetadataChanged    Status = 0x0400
	StatusSlow               Status = 0x0800
	StatusPSOutParams        Status = 0x1000
	StatusInTransReadonly    Status = 0x2000
	StatusSessionChanged     Status = 0x4000 // the OK packet carries session-state changes
	StatusMariaANSIQuotes    Status = 0x8000 // MariaDB alone
)

// Has reports whether all flags of want are in s.
func (s Status) Has(want Status) bool { return s&want == want }
