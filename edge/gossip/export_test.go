package gossip

// EncodedCard is a card as a member advertises it, the name that it must go by,
// and its first news as a message.
type EncodedCard struct {
	Name    string
	Bytes   []byte
	Message []byte
}

// Card encodes what m says of itself, unchecked.
func Card(m Member) EncodedCard {
	c := cardOf(m)
	return EncodedCard{Name: c.name(), Bytes: c.append(nil), Message: c.news.message()}
}

// DecodeCard reads a card.
func DecodeCard(b []byte) (Member, error) {
	c, err := decodeCard(b)
	return c.member(), err
}

// DecodeMessage reads news.
func DecodeMessage(b []byte) error { _, err := decodeMessage(b); return err }

// DecodeState reads a state and returns how much news it holds.
func DecodeState(b []byte, most int) (int, error) {
	all, err := decodeState(b, most)
	return len(all), err
}

func cardOf(m Member) card {
	c := card{role: m.Role, node: m.Node, region: m.Region, addr: m.Addr, version: m.Version}
	if !m.Started.IsZero() {
		c.started = m.Started.UnixMilli()
	}
	c.news = news{boot: m.Boot, counter: 1, position: m.Position}
	return c
}
