// The queue of one model and the threads that run it.

#include "batcher.h"

#include <iterator>

namespace serve {

Batcher::Batcher(Model model, const BatchOptions& options) : model_(std::move(model)), options_(options) {
  for (Instance& instance : model_.instances) threads_.emplace_back([this, &instance] { work(instance); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

int64_t Batcher::rows_of(const std::vector<Tensor>& inputs) const {
  if (model_.batch_sizes.empty()) return 0;
  const int64_t rows = inputs[0].shape[0], most = model_.batch_sizes.back();
  const std::string first = "input " + in_quotes(model_.signature.inputs[0].name);
  if (rows < 1 || rows > most) {
    throw Failure(400, first + ": " + std::to_string(rows) + " rows in dimension 0; expected 1 to " +
                           std::to_string(most) + ", the largest batch of this server");
  }
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].shape[0] == rows) continue;
    throw Failure(400, "input " + in_quotes(model_.signature.inputs[i].name) + ": " +
                           std::to_string(inputs[i].shape[0]) + " rows in dimension 0; expected " +
                           std::to_string(rows) + ", as " + first + " has");
  }
  return rows;
}

std::vector<Tensor> Batcher::run(const std::vector<Tensor>& inputs) {
  Job job;
  job.inputs = &inputs;
  job.rows = rows_of(inputs);
  job.arrival = Clock::now();
  std::unique_lock lock(mutex_);
  if (queue_.size() >= options_.max_queue) {
    throw Failure(503, "model " + in_quotes(model_.signature.name) + ": " + std::to_string(queue_.size()) +
                           " requests are waiting, the most that this server queues; try again later");
  }
  queue_.push_back(&job);
  metrics_.queued(std::ssize(queue_));
  queued_rows_ += job.rows;
  changed_.notify_one();
  job.finished.wait(lock, [&] { return job.done; });
  if (job.status != 200) throw Failure(job.status, "model " + in_quotes(model_.signature.name) + ": " + job.error);
  return std::move(job.outputs);
}

std::vector<Batcher::Job*> Batcher::next(std::unique_lock<std::mutex>& lock) {
  const bool join = options_.join && model_.joins();
  for (;;) {
    if (queue_.empty()) {
      if (stopping_) return {};
      changed_.wait(lock);
      continue;
    }
    if (!join || stopping_ || queued_rows_ >= model_.batch_sizes.back() || queue_.size() >= expected_) break;
    const Clock::time_point until = queue_.front()->arrival + options_.max_delay;
    if (Clock::now() >= until) break;
    changed_.wait_until(lock, until);
  }
  std::vector<Job*> jobs;
  int64_t rows = 0;
  do {
    jobs.push_back(queue_.front());
    queue_.pop_front();
    rows += jobs.back()->rows;
  } while (join && !queue_.empty() && rows + queue_.front()->rows <= model_.batch_sizes.back());
  queued_rows_ -= rows;
  metrics_.queued(std::ssize(queue_));
  if (!queue_.empty()) changed_.notify_one();  // for another instance
  return jobs;
}

void Batcher::run_together(Instance& instance, const std::vector<Job*>& jobs) {
  if (model_.batch_sizes.empty()) {
    jobs[0]->outputs = instance.run(*jobs[0]->inputs);
    return;
  }
  std::vector<const std::vector<Tensor>*> inputs;
  int64_t rows = 0;
  for (const Job* job : jobs) {
    inputs.push_back(job->inputs);
    rows += job->rows;
  }
  std::vector<std::vector<Tensor>> outputs = instance.run_joined(inputs, model_.size_for(rows));
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i]->outputs = std::move(outputs[i]);
}

void Batcher::run_jobs(Instance& instance, const std::vector<Job*>& jobs) {
  const Clock::time_point begin = Clock::now();
  int64_t rows = 0;
  for (const Job* job : jobs) {
    metrics_.waited((begin - job->arrival).count());
    rows += std::max<int64_t>(1, job->rows);
  }
  try {
    run_together(instance, jobs);
  } catch (const std::exception& error) {
    // The inputs of one request can make a run fail, such as an index out of range; the others are run by themselves.
    for (Job* job : jobs) {
      if (jobs.size() == 1) {
        job->error = error.what();
        job->status = dynamic_cast<const kilter::OutOfMemory*>(&error) != nullptr ? 503 : 500;
      } else {
        run_jobs(instance, {job});
      }
    }
    if (jobs.size() > 1) return;
  }
  metrics_.ran(rows, (Clock::now() - begin).count());
}

void Batcher::work(Instance& instance) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::vector<Job*> jobs = next(lock);
    if (jobs.empty()) return;
    lock.unlock();
    run_jobs(instance, jobs);
    lock.lock();
    expected_ = jobs.size() + queue_.size();
    for (Job* job : jobs) {
      job->done = true;
      job->finished.notify_one();
    }
  }
}

}  // namespace serve
