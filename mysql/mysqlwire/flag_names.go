package mysqlwire

import (
	"math/bits"
	"strconv"
)

// Names of bits, without the prefixes CLIENT_ and MARIADB_CLIENT_ of the sources.
var (
	capabilityNames = [64]string{
		"LONG_PASSWORD", "FOUND_ROWS", "LONG_FLAG", "CONNECT_WITH_DB", "NO_SCHEMA", "COMPRESS", "ODBC",
		"LOCAL_FILES", "IGNORE_SPACE", "PROTOCOL_41", "INTERACTIVE", "SSL", "IGNORE_SIGPIPE",
		"TRANSACTIONS", "RESERVED", "SECURE_CONNECTION", "MULTI_STATEMENTS", "MULTI_RESULTS",
		"PS_MULTI_RESULTS", "PLUGIN_AUTH", "CONNECT_ATTRS", "PLUGIN_AUTH_LENENC_CLIENT_DATA",
		"CAN_HANDLE_EXPIRED_PASSWORDS", "SESSION_TRACK", "DEPRECATE_EOF", "OPTIONAL_RESULTSET_METADATA",
		"ZSTD_COMPRESSION_ALGORITHM", "QUERY_ATTRIBUTES", "MULTI_FACTOR_AUTHENTICATION",
		"CAPABILITY_EXTENSION", "SSL_VERIFY_SERVER_CERT", "REMEMBER_OPTIONS",
		"PROGRESS", "COM_MULTI", "STMT_BULK_OPERATIONS", "EXTENDED_TYPE_INFO", "CACHE_METADATA",
		"BULK_UNIT_RESULTS",
	}
	statusNames = [64]string{
		"IN_TRANS", "AUTOCOMMIT", "", "MORE_RESULTS", "NO_GOOD_INDEX", "NO_INDEX", "CURSOR_EXISTS",
		"LAST_ROW_SENT", "DB_DROPPED", "NO_BACKSLASH_ESCAPES", "METADATA_CHANGED", "SLOW",
		"PS_OUT_PARAMS", "IN_TRANS_READONLY", "SESSION_STATE_CHANGED", "ANSI_QUOTES",
	}
)

// String lists the capabilities by their names in the sources, joined by "|".
func (c Capability) String() string { return bitNames(uint64(c), &capabilityNames) }

// String lists the flags by their names in the sources, joined by "|".
func (s Status) String() string { return bitNames(uint64(s), &statusNames) }

// bitNames lists the bits of v in ascending order; a bit without a name by its number.
func bitNames(v uint64, names *[64]string) string {
	if v == 0 {
		return "0"
	}
	var b []byte
	for ; v != 0; v &= v - 1 {
		if len(b) > 0 {
			b = append(b, '|')
		}
		i := bits.TrailingZeros64(v)
		if names[i] == "" {
			b = strconv.AppendInt(append(b, "bit "...), int64(i), 10)
			continue
		}
		b = append(b, names[i]...)
	}
	return string(b)
}
