import{v as t,w as o}from"./chunk-4ZBABXCC.js";function n(){return o("h1",{children:t("setPassword")})}export{n as default};
