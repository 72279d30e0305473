mod cassettes;
mod properties;
mod request;
mod stream;
