package mysqlwire

import "strconv"

// Command is the first byte of a message from client to server once login is done.
type Command uint8

// The commands of the protocol, but for those that are never sent and that servers show for no thread either.
const (
	ComSleep            Command = 0x00 // never sent; servers show it for idle threads
	ComQuit             Command = 0x01
	ComInitDB           Command = 0x02
	ComQuery            Command = 0x03
	ComFieldList        Command = 0x04
	ComCreateDB         Command = 0x05
	ComDropDB           Command = 0x06
	ComRefresh          Command = 0x07
	ComShutdown         Command = 0x08
	ComStatistics       Command = 0x09
	ComProcessInfo      Command = 0x0A
	ComConnect          Command = 0x0B // never sent
	ComProcessKill      Command = 0x0C
	ComDebug            Command = 0x0D
	ComPing             Command = 0x0E
	ComTime             Command = 0x0F // never sent
	ComChangeUser       Command = 0x11
	ComBinlogDump       Command = 0x12
	ComTableDump        Command = 0x13
	ComRegisterReplica  Command = 0x15
	ComStmtPrepare      Command = 0x16
	ComStmtExecute      Command = 0x17
	ComStmtSendLongData Command = 0x18
	ComStmtClose        Command = 0x19
	ComStmtReset        Command = 0x1A
	ComSetOption        Command = 0x1B
	ComStmtFetch        Command = 0x1C
	ComBinlogDumpGTID   Command = 0x1E
	ComResetConnection  Command = 0x1F
	ComClone            Command = 0x20
	ComSubscribeGroup   Command = 0x21 // MySQL: the connection becomes a stream of group replication
	ComStmtBulkExecute  Command = 0xFA // MariaDB
)

// LastPreparedID as a statement id denotes the statement prepared last on the connection (MariaDB connectors
// pipeline PREPARE and EXECUTE with it).
const LastPreparedID = 0xFFFFFFFF

var commandNames = [...]string{
	ComSleep: "Sleep", ComQuit: "Quit", ComInitDB: "Init DB", ComQuery: "Query",
	ComFieldList: "Field List", ComCreateDB: "Create DB", ComDropDB: "Drop DB", ComRefresh: "Refresh",
	ComShutdown: "Shutdown", ComStatistics: "Statistics", ComProcessInfo: "Processlist",
	ComConnect: "Connect", ComProcessKill: "Kill", ComDebug: "Debug", ComPing: "Ping", ComTime: "Time",
	0x10: "Delayed insert", ComChangeUser: "Change user", ComBinlogDump: "Binlog Dump",
	ComTableDump: "Table Dump", 0x14: "Connect Out", ComRegisterReplica: "Register Replica",
	ComStmtPrepare: "Prepare", ComStmtExecute: "Execute", ComStmtSendLongData: "Long Data",
	ComStmtClose: "Close stmt", ComStmtReset: "Reset stmt", ComSetOption: "Set option",
	ComStmtFetch: "Fetch", 0x1D: "Daemon", ComBinlogDumpGTID: "Binlog Dump GTID",
	ComResetConnection: "Reset Connection", ComClone: "Clone",
}

// String returns the command's name as in SHOW PROCESSLIST and the general log.
func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	if c == ComStmtBulkExecute {
		return "Bulk Execute"
	}
	return "Command 0x" + strconv.FormatUint(uint64(c), 16)
}
