package edge

// IsBot lets tests ask without a server.
func IsBot(agent []byte) bool { return isBot(agent) }
