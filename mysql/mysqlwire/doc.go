// Package mysqlwire encodes and decodes the packets of the MySQL client/server protocol, without sockets: one
// file per packet, stage or concept.
//
//	var ok mysqlwire.OK
//	err := ok.Decode(payload, caps)    // views of payload
//	dst = ok.AppendTo(dst, caps)       // the same bytes
//	n, event, err := response.Scan(b)  // a relay: finds the end of a response
//
// The examples show a handshake response, rows, bind parameters and session state.
//
// # Terms
//
//   - A packet is a header of 4 bytes, with length and sequence number, and a payload of up
//     to 16 MiB - 1. A longer message is split into several packets.
//   - A view is a slice that aliases the payload, with capped capacity. It is good for as
//     long as its caller keeps the payload's bytes.
//   - Length-encoded ("lenenc") integers take 1, 3, 4 or 9 bytes; length-encoded strings
//     have one before them.
//   - Capabilities are negotiated at login. They determine the form of many packets, whose
//     Decode and AppendTo take them as an argument.
//
// # The protocol's table of contents
//
//	frame          header.go lenenc.go payload.go
//	negotiation    Capability, Status            capability.go flag_names.go
//	login          server ─► Handshake           handshake.go
//	               client ─► SSLRequest          ssl_request.go
//	               client ─► HandshakeResponse   handshake_response.go
//	               server ─► AuthSwitchRequest, AuthMoreData, AuthNextFactor   auth.go
//	commands       Command                       command.go
//	               Query, SetOption, ChangeUser  query.go set_option.go change_user.go
//	               RegisterReplica, BinlogDump   binlog_dump.go
//	prepared       StmtPrepare, PrepareOK        stmt_prepare.go
//	               StmtExecute, StmtParams       stmt_execute.go stmt_params.go
//	               StmtLongData                  stmt_long_data.go
//	responses      OK, StateChangeIter           ok.go session_track.go
//	               Err, Errno                    err.go errno.go
//	               EOF                           eof.go
//	results        ResultHeader, ColumnType      result_header.go column_type.go
//	               TextRow                       text_row.go
//	               BinaryValue, DateTime         binary_value.go temporal.go
//	               Response                      response.go
//
// Packets that Tare relays without decoding, such as column definitions, have decoders and encoders in the
// tests only (unsent_test.go, unsent_command_test.go): they replay testdata/exchanges. The module e2e compares
// the others with go-mysql's.
//
// # Data flow
//
//	payload ──Decode──> struct of views ──AppendTo──> payload
//
// Decoders retain nothing, trust nothing and do not allocate, except a Handshake in its first use: a
// truncated input returns ErrShortPacket, an input that contradicts its format ErrMalformedPacket, and no
// input panics. Encoders append to the caller's buffer. Response tracks a whole response by the first bytes
// of its packets, for relays that do not decode it.
//
// # Limits
//
// The package opens no connections and computes no passwords (package mysqlconn does), decodes no binary log
// events, and supports neither the compressed protocol nor the protocol before MySQL 4.1.
//
// # Specification
//
// MySQL Source Code Documentation, "Client/Server Protocol"; MariaDB Knowledge Base,
// "Client/Server Protocol". Each type names its section.
package mysqlwire
