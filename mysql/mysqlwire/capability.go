package mysqlwire

// Capability is the set of protocol features negotiated by the two sides of a connection. The low 32 bits are
// the protocol's; the high 32 are MariaDB's extended capabilities, which it sends in a filler of the
// handshake.
type Capability uint64

// Capabilities of the protocol that have an effect on packets or on the gateway. String has the names of all.
const (
	CapLongPassword        Capability = 1 << 0 // CLIENT_LONG_PASSWORD; clear in a MariaDB greeting: extended capabilities follow
	CapFoundRows           Capability = 1 << 1
	CapLongFlag            Capability = 1 << 2
	CapConnectWithDB       Capability = 1 << 3
	CapNoSchema            Capability = 1 << 4 // statements do not name schemas
	CapCompress            Capability = 1 << 5
	CapLocalFiles          Capability = 1 << 7
	CapProtocol41          Capability = 1 << 9
	CapInteractive         Capability = 1 << 10
	CapSSL                 Capability = 1 << 11
	CapIgnoreSigpipe       Capability = 1 << 12
	CapTransactions        Capability = 1 << 13
	CapSecureConnection    Capability = 1 << 15 // CLIENT_RESERVED2 in MySQL 8
	CapMultiStatements     Capability = 1 << 16
	CapMultiResults        Capability = 1 << 17
	CapPSMultiResults      Capability = 1 << 18
	CapPluginAuth          Capability = 1 << 19
	CapConnectAttrs        Capability = 1 << 20
	CapPluginAuthLenenc    Capability = 1 << 21 // authentication responses longer than 255 bytes
	CapExpiredPasswords    Capability = 1 << 22
	CapSessionTrack        Capability = 1 << 23
	CapDeprecateEOF        Capability = 1 << 24
	CapOptionalMetadata    Capability = 1 << 25 // a flag after the column count, and in PREPARE's response: 0 = no definitions follow
	CapZstdCompression     Capability = 1 << 26
	CapQueryAttributes     Capability = 1 << 27
	CapMultiFactorAuth     Capability = 1 << 28
	CapCapabilityExtension Capability = 1 << 29
	CapSSLVerifyServerCert Capability = 1 << 30
	CapRememberOptions     Capability = 1 << 31

	CapMariaProgress         Capability = 1 << 32 // progress reports: ERR packets with errno 0xFFFF
	CapMariaComMulti         Capability = 1 << 33 // obsolete
	CapMariaBulkOperations   Capability = 1 << 34 // COM_STMT_BULK_EXECUTE
	CapMariaExtendedTypeInfo Capability = 1 << 35
	CapMariaCacheMetadata    Capability = 1 << 36 // a flag after the column count: 0 = no definitions follow
	CapMariaBulkUnitResults  Capability = 1 << 37
)

// CapKnown are the capabilities whose effect on the packets is known.
const CapKnown = Capability(1<<32-1) | CapMariaProgress | CapMariaComMulti | CapMariaBulkOperations |
	CapMariaExtendedTypeInfo | CapMariaCacheMetadata | CapMariaBulkUnitResults

// Has reports whether all capabilities of want are in c.
func (c Capability) Has(want Capability) bool { return c&want == want }

// Status is the server status that OK and EOF packets carry.
type Status uint16

// Server status flags that have an effect on packets or on the gateway. String has the names of all.
const (
	StatusInTrans            Status = 0x0001
	StatusAutocommit         Status = 0x0002
	StatusMoreResults        Status = 0x0008 // another response of the same command follows
	StatusCursorExists       Status = 0x0040 // rows are fetched by COM_STMT_FETCH
	StatusLastRowSent        Status = 0x0080
	StatusNoBackslashEscapes Status = 0x0200
	StatusMetadataChanged    Status = 0x0400 // of an execution: the result has other columns than at PREPARE
	statusPSOutParams        Status = 0x1000
	StatusInTransReadonly    Status = 0x2000
	StatusSessionChanged     Status = 0x4000 // the OK packet carries session-state changes
	StatusMariaANSIQuotes    Status = 0x8000 // MariaDB only
)

// Has reports whether all flags of want are in s.
func (s Status) Has(want Status) bool { return s&want == want }
