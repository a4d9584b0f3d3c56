// SPDX-License-Identifier: Apache-2.0
// Send and receive with tags, over an endpoint to each peer. The backend calls it.
//
// A short message travels in a control message. The sender of a longer one announces it, and the
// receiver answers once a receive matches: only then do both begin a transfer, in the order of the
// answers, so that no tag waits behind another. All control messages of an endpoint have one tag of
// Oriel's, and are matched here: the library keeps few unexpected ones.
#pragma once

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "work.hpp"

namespace oriel_torch {

class Communicator;
class Messenger;

// A send or a receive. Its waits make progress themselves.
class MessageWork : public OrielWork {
 public:
	MessageWork(std::shared_ptr<Communicator> communicator, int rank, c10d::OpType type,
		    uint64_t sequence, const char *title, const at::Tensor &tensor, int peer, int tag,
		    std::chrono::milliseconds timeout);

	bool isCompleted() override;
	bool wait(std::chrono::milliseconds timeout) override;
	int sourceRank() const override { return source_; }

 private:
	friend class Messenger;
	std::string where() override;

	const std::weak_ptr<Communicator> communicator_;
	const int peer_, tag_;
	int source_ = -1;
	std::atomic<bool> is_moving_{false}; // both ranks are in its transfer
};

class Messenger {
 public:
	Messenger(struct oriel_comm *comm, unsigned rank, unsigned size);

	static constexpr int ANY = -1; // as the peer of a receive

	// @tensor is contiguous; it stays until the work completes.
	void send(const c10::intrusive_ptr<MessageWork> &work, const at::Tensor &tensor,
		  unsigned peer, int64_t tag);
	void recv(const c10::intrusive_ptr<MessageWork> &work, const at::Tensor &tensor, int peer,
		  int64_t tag);
	// Some progress of everything. Any thread.
	void drive();
	// Waits until what was sent has left, at most @timeout_ns, and completes the rest with an
	// error.
	void stop(uint64_t timeout_ns);

 private:
	static constexpr size_t SHORT = 8192; // bytes of a message that travels at once

	enum Kind : uint32_t { DATA = 1, ANNOUNCE, READY, REFUSE };
	struct Header {
		uint32_t kind;
		uint32_t reserved;
		int64_t tag;
		uint64_t length; // of the message
		uint64_t id;     // of an announced one, at its sender
	};
	struct Operation {
		c10::intrusive_ptr<MessageWork> work; // none for answers
		at::Tensor tensor;
		unsigned peer;
		int wanted; // of a receive
		int64_t tag;
		std::vector<char> message;
		struct oriel_p2p_request request;
	};
	struct Message { // that arrived before its receive
		unsigned peer;
		Header header;
		std::vector<char> data;
	};
	struct Peer {
		struct oriel_p2p *endpoint = nullptr;
		struct oriel_p2p_request arriving;
		char room[sizeof(Header) + SHORT];
	};
	using Finished = std::vector<std::pair<c10::intrusive_ptr<MessageWork>, std::exception_ptr>>;

	Peer &peer(unsigned rank);
	void listen(Peer &at);
	void control(unsigned rank, Header header, std::unique_ptr<Operation> operation);
	void arrived(unsigned rank, const Header &header, const char *data, size_t length);
	void accept(std::unique_ptr<Operation> receive, unsigned from, const Header &header,
		    const char *data);
	void transfer(std::unique_ptr<Operation> operation, bool is_send);
	void fail(const std::unique_ptr<Operation> &operation, const std::string &text);
	void fail_peer(unsigned rank, const std::string &text);
	void look(Finished &finished);
	bool is_moving() const; // any of the transfers
	void loop();

	struct oriel_comm *const comm_;
	const unsigned rank_, size_;

	std::mutex mutex_; // guards what follows; no work completes with it held
	std::condition_variable changed_;
	std::map<unsigned, std::unique_ptr<Peer>> peers_;
	std::list<std::unique_ptr<Operation>> posted_;           // receives that await a message
	std::list<std::unique_ptr<Operation>> active_;           // with a request under way
	std::map<uint64_t, std::unique_ptr<Operation>> announced_; // sends that await an answer
	std::list<Message> unexpected_;
	// Failed while under way: the library writes to them until the communicator is destroyed,
	// which the owner does before it destroys this object.
	std::list<std::unique_ptr<Operation>> dead_;
	Finished finished_;
	uint64_t next_id_ = 1;
	std::thread thread_; // drives while nothing waits
	bool is_stopped_ = false;
};

} // namespace oriel_torch
