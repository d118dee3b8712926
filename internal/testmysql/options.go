package testmysql

// An Option changes how a server is started.
type Option func(*settings)

// settings are the combined options.
type settings struct {
	args    []string
	plugins []string
	setup   []string // statements run by root once the server is ready
	tls     bool
	binlog  bool
	mysql   bool
	dir     string // of the programs

	parent string // of the server's directory

	hostCache bool
}

// WithMySQL starts MySQL instead of MariaDB.
func WithMySQL() Option {
	return func(s *settings) { s.mysql = true }
}

// WithPrograms starts the server in a directory to which MariaDB or MySQL was unpacked or installed, instead
// of the one in PATH.
func WithPrograms(dir string) Option {
	return func(s *settings) { s.dir = dir }
}

// WithFilesIn keeps the server's data, temporary files and socket below a directory, for example on a small disk.
func WithFilesIn(parent string) Option {
	return func(s *settings) { s.parent = parent }
}

// WithArgs passes further arguments to the server; they come last and so override the package's.
func WithArgs(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// WithTLS makes the server offer TLS with a certificate for 127.0.0.1 and localhost, signed by a separate
// authority: see Server.CA and Server.CAFile.
func WithTLS() Option {
	return func(s *settings) { s.tls = true }
}

// WithPerformanceSchema turns the performance schema on, with the statement digest tables.
func WithPerformanceSchema() Option {
	return WithArgs("--performance-schema=ON",
		"--performance-schema-consumer-statements-digest=ON",
		"--performance-schema-max-digest-length=4096",
		"--max-digest-length=4096")
}

// WithHostCache makes the server count failed connections by address, which it does only if it resolves
// names. 127.0.0.1 is never counted.
func WithHostCache() Option {
	return func(s *settings) { s.hostCache = true }
}

// WithBinlog makes the server write a binary log of row events with full images.
func WithBinlog() Option {
	return func(s *settings) { s.binlog = true }
}

// WithEd25519 loads the auth_ed25519 plugin and adds the account EdUser, which
// authenticates by client_ed25519 with Password. MySQL has no such plugin.
func WithEd25519() Option {
	return func(s *settings) {
		s.plugins = append(s.plugins, "auth_ed25519")
		s.setup = append(s.setup, "CREATE OR REPLACE USER '"+EdUser+"'@'%' IDENTIFIED VIA ed25519 USING PASSWORD('"+Password+"')",
			"GRANT ALL ON `%`.* TO '"+EdUser+"'@'%'")
	}
}

// WithSetup runs statements as root once the server is ready, and again after a restart.
func WithSetup(statements ...string) Option {
	return func(s *settings) { s.setup = append(s.setup, statements...) }
}
