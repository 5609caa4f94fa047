-- Alerts are sent to webhooks: what is to be sent where, and which alerts were taken into it.

SET LOCAL lock_timeout = '5s';

CREATE TABLE notifications (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target TEXT NOT NULL,
    messages JSONB NOT NULL CHECK (jsonb_typeof(messages) = 'array'),
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL CHECK (attempts >= 0),
    next_attempt_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    ended_at TIMESTAMP WITH TIME ZONE,
    error TEXT
);
CREATE INDEX ix_notifications_open ON notifications (target, id) WHERE ended_at IS NULL;
CREATE INDEX ix_notifications_ended_at ON notifications (ended_at) WHERE ended_at IS NOT NULL;
COMMENT ON TABLE notifications IS 'One message to a target each, with the alerts in it. It is recorded before it is sent, so that one that is sent twice has the same id.';
COMMENT ON COLUMN notifications.target IS 'name of the webhook in the settings';
COMMENT ON COLUMN notifications.messages IS 'alerts that opened or ended, as they were then';
COMMENT ON COLUMN notifications.ended_at IS 'when it was delivered or given up; NULL: it is to be sent';
COMMENT ON COLUMN notifications.error IS 'of the newest attempt; NULL: there was none, or it was delivered';

CREATE TABLE notified (
    target TEXT NOT NULL,
    alert BIGINT NOT NULL REFERENCES alerts ON DELETE CASCADE,
    opened_in BIGINT NOT NULL,
    resolved_in BIGINT,
    PRIMARY KEY (target, alert)
);
CREATE INDEX ix_notified_unresolved ON notified (target, alert) WHERE resolved_in IS NULL;
CREATE INDEX ix_notified_alert ON notified (alert);
COMMENT ON TABLE notified IS 'Which alerts a target is told of, in which of its notifications.';
COMMENT ON COLUMN notified.resolved_in IS 'NULL: the target was not told that the alert ended';
