// Package gomysql compares what packages mysqlconn, mysqlwire and binlog send and decode with go-mysql, a second
// implementation of the protocol: logins, packets, errors and events of the binary log. In the main module it would be a
// requirement of every user of a package.
package gomysql
