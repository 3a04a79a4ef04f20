import{a as p,c as m,ma as o}from"./chunk-I2MJRGS5.js";m(p(o,null),document.getElementById("app"));
